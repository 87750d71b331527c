<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use InvalidArgumentException;
use PDO;

final class ConfigurationTest extends AppTestCase
{
    private function assertRejected(array $options, string $says): void
    {
        $this->app['config']->set('queue.connections.other', $options + ['driver' => 'jobq']);
        try {
            $this->jobs('other');
            self::fail("no error: $says");
        } catch (InvalidArgumentException $error) {
            self::assertStringContainsString($says, $error->getMessage());
        }
    }

    public function testInvalidOptionsAreErrors(): void
    {
        $this->assertRejected(['retryAfter' => 90], 'retryAfter');
        $this->assertRejected(['retry_after' => 'soon'], 'retry_after');
        $this->assertRejected(['retry_after' => 0], 'retry_after');
        $this->assertRejected(['block_for' => 0], 'block_for');
        $this->assertRejected(['connection' => 'sqlite'], 'pgsql');
    }

    public function testPersistentConnectionsAreErrors(): void
    {
        $options = [PDO::ATTR_PERSISTENT => true];
        $this->app['config']->set('database.connections.persistent', ['options' => $options] + $this->app['config']['database.connections.pgsql']);
        $this->assertRejected(['connection' => 'persistent'], 'PDO::ATTR_PERSISTENT');
    }

    public function testDefaultQueueAndLease(): void
    {
        $this->app['config']->set('queue.connections.other', ['driver' => 'jobq', 'queue' => $this->queue, 'retry_after' => 45]);
        $id = $this->jobs('other')->push(new Called());
        self::assertSame($this->queue, $this->job($id, 'queue'));
        self::assertSame($id, $this->jobs('other')->pop()->getJobId());
        self::assertSame('00:00:45', $this->ask('SELECT heartbeat_timeout::text FROM jobq_get(?)', $id));
    }
}
