<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

/** The names of private and protected properties contain NUL characters in the serialized message. */
final class Message
{
    public function __construct(private string $name = 'a')
    {
    }

    public function name(): string
    {
        return $this->name;
    }
}
