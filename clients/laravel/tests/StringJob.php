<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Contracts\Queue\Job;

/** A job that is not an object: Laravel calls fire() with the data of the payload. */
final class StringJob
{
    public function fire(Job $job, array $data): void
    {
        Called::$calls[] = json_encode($data);
        $job->delete();
    }
}
