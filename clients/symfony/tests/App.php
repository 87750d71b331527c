<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Jobq\Messenger\JobqTransport;
use Jobq\Messenger\JobqTransportFactory;
use Jobq\Messenger\TransactionalMiddleware;
use Psr\Log\NullLogger;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\SendMessageMiddleware;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\Transport\Sender\SendersLocator;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

/** An application without a kernel: a bus, the listeners of the framework, and the transports "async" and "failed". */
final class App
{
    public readonly Connection $connection;
    public readonly Log $log;
    public readonly EventDispatcher $events;
    public readonly MessageBus $bus;
    public readonly Services $transports;

    /** @param string $options of the transport "async", as in a DSN */
    public function __construct(string $queue, callable $handler, string $options = '', int $retries = 2, bool $transactional = false)
    {
        $this->connection = DriverManager::getConnection(['driver' => 'pdo_pgsql'] + array_filter([
            'host' => getenv('PGHOST'), 'port' => (int) getenv('PGPORT'), 'dbname' => getenv('PGDATABASE'), 'user' => getenv('PGUSER'),
        ]));
        $this->log = new Log();
        $this->transports = new Services([
            'async' => $this->transport('queue=' . rawurlencode($queue) . $options),
            'failed' => $this->transport('queue=' . rawurlencode("$queue failed")),
        ]);
        $this->events = new EventDispatcher();
        $this->events->addSubscriber(new AddErrorDetailsStampListener());
        $this->events->addSubscriber(new SendFailedMessageForRetryListener(
            $this->transports,
            new Services(['async' => new MultiplierRetryStrategy($retries, 3600000)]),
            new NullLogger(),
            $this->events
        ));
        $this->events->addSubscriber(new SendFailedMessageToFailureTransportListener(new Services(['async' => $this->transports->get('failed')])));
        $this->bus = new MessageBus([
            new SendMessageMiddleware(new SendersLocator([Message::class => ['async']], $this->transports)),
            ...($transactional ? [new TransactionalMiddleware($this->connection)] : []),
            new HandleMessageMiddleware(new HandlersLocator([Message::class => [$handler]])),
        ]);
    }

    public function transport(string $options): JobqTransport
    {
        $factory = new JobqTransportFactory($this->log, new Registry($this->connection));
        return $factory->createTransport("jobq://default?$options", ['transport_name' => 'async'], new PhpSerializer());
    }

    public function async(): JobqTransport
    {
        return $this->transports->get('async');
    }
}
