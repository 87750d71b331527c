<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Bus\Batchable;

final class BatchJob extends Called
{
    use Batchable;
}
