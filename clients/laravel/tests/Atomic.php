<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Jobq\Laravel\Transactional;

final class Atomic extends Called
{
    public function middleware(): array
    {
        return [new Transactional()];
    }
}
