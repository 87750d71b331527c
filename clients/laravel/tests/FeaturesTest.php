<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Bus\UniqueLock;
use Illuminate\Contracts\Cache\Repository;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Support\Facades\Bus;

/** Features that Laravel builds on any queue driver. */
final class FeaturesTest extends AppTestCase
{
    private function finishAll(): void
    {
        $this->until(function (): bool {
            $this->work();
            return $this->jobs()->size($this->queue) === 0;
        });
    }

    public function testChains(): void
    {
        $this->dispatch((new Called('a'))->chain([(new Called('b'))->onQueue($this->queue), (new Called('c'))->onQueue($this->queue)]));
        $this->finishAll();
        self::assertSame(['a 1', 'b 1', 'c 1'], Called::$calls);
        self::assertSame([], $this->reported());
    }

    public function testBatches(): void
    {
        $this->database->getSchemaBuilder()->create('job_batches', static function (Blueprint $table): void {
            $table->string('id')->primary();
            $table->string('name');
            foreach (['total_jobs', 'pending_jobs', 'failed_jobs'] as $count) {
                $table->integer($count);
            }
            $table->text('failed_job_ids');
            $table->text('options')->nullable();
            foreach (['cancelled_at', 'created_at', 'finished_at'] as $time) {
                $table->integer($time)->nullable();
            }
        });
        $batch = Bus::batch([new BatchJob('a'), new BatchJob('b')])->onQueue($this->queue)->dispatch();
        $this->finishAll();
        self::assertSame(['a 1', 'b 1'], Called::$calls);
        self::assertTrue($batch->fresh()->finished());
        $this->database->getSchemaBuilder()->drop('job_batches');
    }

    public function testOverlappingJobsAreReleased(): void
    {
        $job = new OverlappingJob();
        $lock = $this->app['cache.store']->lock((new WithoutOverlapping('k'))->getLockKey($job));
        $lock->get();
        $id = $this->dispatch($job);
        $this->work();
        self::assertSame(['scheduled', []], [$this->job($id, 'status'), Called::$calls]);
        $lock->release();
        $this->workUntil('completed', $id);
        self::assertSame(['a 2'], Called::$calls);
    }

    public function testTheLockOfAUniqueJobIsHeldUntilTheJobHasEnded(): void
    {
        $lock = new UniqueLock($this->app->make(Repository::class));
        $job = new UniqueJob();
        self::assertTrue($lock->acquire($job));
        $this->dispatch($job);
        self::assertFalse($lock->acquire(new UniqueJob()), 'while the job waits');
        $this->finishAll();
        self::assertTrue($lock->acquire(new UniqueJob()), 'after the job has ended');
    }
}
