<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Bus\BusServiceProvider;
use Illuminate\Cache\CacheServiceProvider;
use Illuminate\Config\Repository;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Foundation\MaintenanceMode;
use Illuminate\Database\DatabaseServiceProvider;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\FileBasedMaintenanceMode;
use Illuminate\Queue\QueueServiceProvider;
use Illuminate\Support\Facades\Facade;
use Jobq\Laravel\JobqServiceProvider;
use Monolog\Handler\NullHandler;

/** An application of Laravel without HTTP, whose databases and queues are those of the tests. */
final class App
{
    public static function make(): Application
    {
        $app = new Application(sys_get_temp_dir());
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
        $database = [
            'driver' => 'pgsql', 'host' => getenv('PGHOST'), 'port' => getenv('PGPORT'), 'database' => getenv('PGDATABASE'),
            'username' => getenv('PGUSER'), 'charset' => 'utf8', 'prefix' => '', 'search_path' => 'public',
        ];
        $queue = ['driver' => 'jobq', 'retry_after' => 3600];
        $app->instance('config', new Repository([
            'database' => ['default' => 'pgsql', 'connections' => ['pgsql' => $database, 'sqlite' => ['driver' => 'sqlite', 'database' => ':memory:']]],
            'cache' => ['default' => 'array', 'stores' => ['array' => ['driver' => 'array']]],
            'logging' => ['default' => 'null', 'channels' => ['null' => ['driver' => 'monolog', 'handler' => NullHandler::class]]],
            'queue' => [
                'default' => 'jobq',
                'connections' => [
                    'jobq' => $queue,
                    'after commit' => ['after_commit' => true] + $queue,
                    'blocking' => ['block_for' => 3600] + $queue,
                ],
                'batching' => ['database' => 'pgsql', 'table' => 'job_batches'],
                'failed' => ['driver' => 'database-uuids', 'database' => 'pgsql', 'table' => 'failed_jobs'],
            ],
        ]));
        $app->instance(ExceptionHandler::class, new Errors());
        $app->bind(MaintenanceMode::class, FileBasedMaintenanceMode::class);   // does not exist in Laravel 8, which does not need it
        foreach ([DatabaseServiceProvider::class, CacheServiceProvider::class, BusServiceProvider::class, QueueServiceProvider::class,
            JobqServiceProvider::class] as $provider) {
            $app->register($provider);
        }
        $app->boot();
        return $app;
    }
}
