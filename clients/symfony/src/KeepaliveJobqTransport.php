<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;

/** The transport for Symfony 7.2 and later, where workers send heartbeats. */
final class KeepaliveJobqTransport extends JobqTransport implements KeepaliveReceiverInterface
{
}
