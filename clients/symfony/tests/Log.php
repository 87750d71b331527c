<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Psr\Log\AbstractLogger;

/** Keeps the messages of warnings. */
final class Log extends AbstractLogger
{
    /** @var string[] */
    public array $warnings = [];

    public function log($level, $message, array $context = []): void
    {
        if ($level === 'warning') {
            $this->warnings[] = strtr((string) $message, ['{id}' => $context['id'] ?? '']);
        }
    }
}
