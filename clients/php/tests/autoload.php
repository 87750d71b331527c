<?php

declare(strict_types=1);

namespace Jobq\Tests;

/** Loads classes from these directories, which are listed by namespace, and the classes of this directory. */
function autoload(array $directories): void
{
    $directories['Jobq\\Tests\\'] = __DIR__;
    spl_autoload_register(static function (string $class) use ($directories): void {
        foreach ($directories as $namespace => $directory) {
            if (str_starts_with($class, $namespace)) {
                $file = $directory . '/' . strtr(substr($class, strlen($namespace)), '\\', '/') . '.php';
                if (is_file($file)) {
                    require $file;
                    return;
                }
            }
        }
    });
}
