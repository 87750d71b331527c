<?php

// Loads the packages of Debian and this package.
declare(strict_types=1);

require_once '/usr/share/php/Illuminate/autoload.php';

spl_autoload_register(static function (string $class): void {
    foreach (['Jobq\\Laravel\\Tests\\' => __DIR__, 'Jobq\\Laravel\\' => dirname(__DIR__) . '/src'] as $prefix => $directory) {
        if (str_starts_with($class, $prefix)) {
            $file = $directory . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
            if (is_file($file)) {
                require $file;
                return;
            }
        }
    }
});
