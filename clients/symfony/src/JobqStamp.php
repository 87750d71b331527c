<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use InvalidArgumentException;
use Symfony\Component\Messenger\Stamp\StampInterface;

/** Options of jobq_enqueue for the job of a message, for example ['priority' => -5, 'unique_key' => 'product 7']. */
final class JobqStamp implements StampInterface
{
    /** Keys that the transport sets, with the place where the application sets them. */
    private const SET_BY_TRANSPORT = [
        'queue' => 'the option "queue" of the transport', 'payload' => 'the message', 'kind' => 'the class of the message',
        'run_at' => 'DelayStamp', 'heartbeat_timeout' => 'the option "redeliver_timeout" of the transport',
    ];

    /** Options that remain valid for the job with which a message is retried. */
    private const KEPT = [
        'priority', 'max_attempts', 'unique_key', 'on_conflict', 'group_key', 'concurrency_key', 'version', 'max_runtime', 'limits', 'metadata',
    ];

    public function __construct(public readonly array $options)
    {
        foreach (array_intersect_key(self::SET_BY_TRANSPORT, $options) as $key => $place) {
            throw new InvalidArgumentException("JobqStamp must not have the key \"$key\"; use $place instead");
        }
        if (isset($options['requires'])) {
            throw new InvalidArgumentException('JobqStamp must not have the key "requires", because the workers of Messenger have no capabilities');
        }
    }

    /** Returns the options of a retry. The key of a job with unique_for stays reserved, so its retry has no unique key. */
    public function forRetry(): array
    {
        $kept = array_intersect_key($this->options, array_flip(self::KEPT));
        return isset($this->options['unique_for']) ? array_diff_key($kept, ['unique_key' => 0, 'on_conflict' => 0]) : $kept;
    }
}
