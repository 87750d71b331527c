<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Queue\Middleware\WithoutOverlapping;

final class OverlappingJob extends Called
{
    public function middleware(): array
    {
        return [(new WithoutOverlapping('k'))->releaseAfter(3600)];
    }
}
