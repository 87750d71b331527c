// Decides to which hosts and addresses requests may go. Private, loopback, link-local, and other special addresses are forbidden unless the
// configuration allows them, so that a wrong URL or DNS entry cannot reach internal services.
import { lookup } from 'node:dns';
import { BlockList, isIP } from 'node:net';

// The IPv4 ranges of the IANA special-purpose registry that are not global, and multicast.
const FORBIDDEN_4 = [
    '0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24', '192.0.2.0/24',
    '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/3',
];
// All IPv6 addresses that are not global unicast (2000::/3), and ranges of it that are special or contain IPv4 addresses.
const FORBIDDEN_6 = ['::/3', '4000::/2', '8000::/1', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

/** Returns {address, family, prefix} of text such as 10.1.0.0/16 or ::1, or undefined. */
export function rangeOf(text) {
    const [, address, length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
    const family = isIP(address ?? '');
    const bits = family === 6 ? 128 : 32;
    const prefix = length === undefined ? bits : Number(length);
    return family && prefix <= bits ? { address, family: `ipv${family}`, prefix } : undefined;
}

function listOf(ranges) {
    const list = new BlockList();
    for (const { address, family, prefix } of ranges) list.addSubnet(address, prefix, family);
    return list;
}

// Separate lists, because a BlockList applies its IPv6 ranges to IPv4 addresses, too.
const forbidden = { ipv4: listOf(FORBIDDEN_4.map(rangeOf)), ipv6: listOf(FORBIDDEN_6.map(rangeOf)) };

/** Returns whether the host has this name, or ends with .NAME if the pattern is *.NAME. */
export const matches = (pattern, host) => (pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern);

export class Addresses {
    #allowed;

    /** allowed: ranges that are allowed although they are special. */
    constructor(allowed = []) {
        this.#allowed = listOf(allowed);
    }

    isAllowed(address) {
        const family = `ipv${isIP(address)}`;
        return this.#allowed.check(address, family) || !forbidden[family].check(address, family);
    }

    /**
     * Returns a function like dns.lookup() that fails if one of the addresses is forbidden. The socket connects to the addresses that
     * this function returns, so the name is not resolved again after the check.
     */
    lookupWith(resolve = lookup) {
        return (host, options, callback) => {
            resolve(host, { ...options, all: true }, (error, found) => {
                if (error) return callback(error);
                const wrong = found.find(({ address }) => !this.isAllowed(address));
                if (wrong) return callback(notAllowed(host, wrong.address));
                if (options.all) return callback(null, found);
                return callback(null, found[0].address, found[0].family);
            });
        };
    }
}

export const notAllowed = (host, address) => Object.assign(
    new Error(`the host "${host}" has the address ${address}, which is not public and not in allowedAddresses`), { code: 'ERR_ADDRESS_NOT_ALLOWED' });
