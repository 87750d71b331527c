<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** The job and the lease with which the transport has received a message. */
final class JobqReceivedStamp implements NonSendableStampInterface
{
    /** Whether an open transaction has completed the job. A heartbeat would wait for this transaction. */
    public bool $completing = false;

    public function __construct(public readonly int $id, public readonly int $lease)
    {
    }
}
