"""Checks that META.json conforms to the PGXN Meta Spec 1.0.0 and names existing files.

    meta.py META.json DIRECTORY     the directory is that of the distribution
"""
import json
import os
import re
import sys

SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-?[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")
TERM = re.compile(r"[^\s/\\\x00-\x1f]{2,}")
LICENSES = {
    "agpl_3", "apache_1_1", "apache_2_0", "artistic_1", "artistic_2", "bsd", "freebsd", "gfdl_1_2", "gfdl_1_3", "gpl_1",
    "gpl_2", "gpl_3", "lgpl_2_1", "lgpl_3_0", "mit", "mozilla_1_0", "mozilla_1_1", "openssl", "perl_5", "postgresql", "qpl_1_0",
    "ssleay", "sun", "zlib", "open_source", "restricted", "unrestricted", "unknown"}
PHASES = {"configure", "build", "test", "runtime", "develop"}
RELATIONS = {"requires", "recommends", "suggests", "conflicts"}
RANGE = re.compile(rf"0|(([<>]=?|[=!]=) *)?{SEMVER.pattern}")

found = []


def expect(what, condition):
    if not condition:
        found.append(what)


def text(value):
    return isinstance(value, str) and value.strip() != ""


def texts(value):
    return text(value) or isinstance(value, list) and len(value) > 0 and all(map(text, value))


def known(key):
    return key in KEYS or key.lower().startswith("x_")


def version(value):
    return text(value) and SEMVER.fullmatch(value) is not None


def license_fits(value):
    if isinstance(value, dict):
        return len(value) > 0 and all(text(url) and re.match(r"https?://", url) for url in value.values())
    return texts(value) and set([value] if text(value) else value) <= LICENSES


def provides_fits(value):
    return isinstance(value, dict) and len(value) > 0 and all(
        TERM.fullmatch(name) and isinstance(entry, dict) and text(entry.get("file")) and version(entry.get("version"))
        and set(entry) <= {"file", "version", "abstract", "docfile"} and all(map(text, entry.values()))
        for name, entry in value.items())


def prereqs_fit(value):
    return isinstance(value, dict) and set(value) <= PHASES and all(
        isinstance(phase, dict) and set(phase) <= RELATIONS and all(
            isinstance(needs, dict) and all(
                all(RANGE.fullmatch(part.strip()) for part in str(needed).split(",")) for needed in needs.values())
            for needs in phase.values())
        for phase in value.values())


URL = re.compile(r"[a-z][a-z+.-]*://\S+")
MAINTAINER = re.compile(r"[^<>]+ <[^<>\s@]+@[^<>\s@]+>")


def maintainers_fit(value):
    return texts(value) and all(MAINTAINER.fullmatch(name) for name in ([value] if text(value) else value))


def resources_fit(value):
    """Checks the forms of the specification: URLs, and objects with URLs."""
    shapes = {"bugtracker": {"web", "mailto"}, "repository": {"url", "web", "type"}}
    return isinstance(value, dict) and set(value) <= {"homepage", *shapes} and all(
        URL.fullmatch(entry) if key == "homepage" and text(entry) else
        isinstance(entry, dict) and len(entry) > 0 and set(entry) <= shapes[key] and all(
            text(part) and (name in ("type", "mailto") or URL.fullmatch(part)) for name, part in entry.items())
        for key, entry in value.items())


# The type of each field; the required fields come first.
KEYS = {
    "name": lambda value: text(value) and TERM.fullmatch(value),
    "version": version,
    "abstract": text,
    "maintainer": maintainers_fit,
    "license": license_fits,
    "provides": provides_fits,
    "meta-spec": lambda value: isinstance(value, dict) and value.get("version") == "1.0.0",
    "description": text,
    "generated_by": text,
    "tags": texts,
    "prereqs": prereqs_fit,
    "release_status": lambda value: value in ("stable", "testing", "unstable"),
    "no_index": lambda value: isinstance(value, dict),
    "resources": resources_fit,
}
# The specification does not require the last two, but catalogs show them.
REQUIRED = [*list(KEYS)[:7], "release_status", "resources"]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        meta = json.load(file)
    for key in REQUIRED:
        expect(f"{key} is missing", key in meta)
    for key, value in meta.items():
        expect(f"{key} is no key of the specification", known(key))
        if key in KEYS:
            expect(f"{key} is not what it must be: {json.dumps(value)}", KEYS[key](value))
    if not found:
        for name, entry in meta["provides"].items():
            expect(f"{name} has another version than the distribution", entry["version"] == meta["version"])
            for path in (entry["file"], entry.get("docfile", entry["file"])):
                expect(f"{path} of {name} is not in the distribution", os.path.isfile(os.path.join(sys.argv[2], path)))
    for line in found:
        print(f"META.json: {line}", file=sys.stderr)
    sys.exit(1 if found else 0)


main()
