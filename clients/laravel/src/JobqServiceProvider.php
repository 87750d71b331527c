<?php

declare(strict_types=1);

namespace Jobq\Laravel;

use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobTimedOut;
use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Registers the queue driver "jobq". */
class JobqServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->callAfterResolving('queue', function (QueueManager $manager): void {
            $manager->addConnector('jobq', fn () => new JobqConnector($this->app['db']));
        });
    }

    public function boot(): void
    {
        // Laravel passes the exception to release() and to the end of a timed-out worker only through these events.
        $this->app['events']->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            if ($event->job instanceof JobqJob) {
                $event->job->setException($event->exception);
            }
        });
        $this->app['events']->listen(JobTimedOut::class, static function (JobTimedOut $event): void {
            if ($event->job instanceof JobqJob) {
                $event->job->reportTimeout();
            }
        });
    }
}
