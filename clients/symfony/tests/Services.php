<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Psr\Container\ContainerInterface;

/** A container of given services. */
final class Services implements ContainerInterface
{
    /** @param array<string, object> $services */
    public function __construct(private array $services)
    {
    }

    public function get(string $id): object
    {
        return $this->services[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->services[$id]);
    }
}
