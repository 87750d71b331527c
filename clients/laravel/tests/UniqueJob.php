<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeUnique;

final class UniqueJob extends Called implements ShouldBeUnique
{
}
