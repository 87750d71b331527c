<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Support\Facades\DB;

/** A job for workers in processes of their own: notes each attempt in the table effects, and then ends the first attempt as told. */
final class Effect implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public ?int $timeout = null;

    public function __construct(private string $first = 'return')
    {
        $this->timeout = $first === 'hang' ? 1 : null;
    }

    public function handle(): void
    {
        DB::table('effects')->insert(['name' => "attempt {$this->attempts()}"]);
        if ($this->attempts() === 1) {
            match ($this->first) {
                'return' => null,
                'kill' => posix_kill(getmypid(), SIGKILL),
                'hang' => sleep(3600),
            };
        }
    }
}
