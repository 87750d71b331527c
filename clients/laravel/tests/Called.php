<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Closure;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Throwable;

/** A job whose behavior the test chooses, and that notes what Laravel calls. */
class Called implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public static Closure $handle;

    /** @var string[] */
    public static array $calls = [];

    public ?int $tries = null;

    public ?int $timeout = null;

    public int|array $backoff = 0;

    /** The names of private and protected properties contain NUL characters in the serialized job. */
    public function __construct(protected string $name = 'a')
    {
    }

    public function handle(): void
    {
        self::$calls[] = "$this->name {$this->attempts()}";
        (self::$handle)($this);
    }

    public function failed(?Throwable $error): void
    {
        self::$calls[] = 'failed: ' . $error?->getMessage();
    }
}
