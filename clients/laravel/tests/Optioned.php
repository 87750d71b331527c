<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

final class Optioned extends Called
{
    public function __construct(private array $options)
    {
        parent::__construct();
    }

    public function jobq(): array
    {
        return $this->options;
    }
}
