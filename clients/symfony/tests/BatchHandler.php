<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Closure;
use Symfony\Component\Messenger\Handler\Acknowledger;
use Symfony\Component\Messenger\Handler\BatchHandlerInterface;
use Symfony\Component\Messenger\Handler\BatchHandlerTrait;

/** Handles two messages at a time. */
final class BatchHandler implements BatchHandlerInterface
{
    use BatchHandlerTrait;

    public function __construct(private Closure $before)
    {
    }

    public function __invoke(Message $message, ?Acknowledger $ack = null): mixed
    {
        return $this->handle($message, $ack);
    }

    private function shouldFlush(): bool
    {
        return count($this->jobs) >= 2;
    }

    private function process(array $jobs): void
    {
        ($this->before)();
        foreach ($jobs as [, $ack]) {
            $ack->ack();
        }
    }
}
