<?php

// Loads the packages of Debian and this package.
declare(strict_types=1);

foreach (['Symfony/Component/Messenger', 'Symfony/Component/Console', 'Symfony/Component/EventDispatcher', 'Doctrine/DBAL', 'Doctrine/Persistence'] as $package) {
    require_once "/usr/share/php/$package/autoload.php";
}

spl_autoload_register(static function (string $class): void {
    foreach (['Jobq\\Messenger\\Tests\\' => __DIR__, 'Jobq\\Messenger\\' => dirname(__DIR__) . '/src'] as $prefix => $directory) {
        if (str_starts_with($class, $prefix)) {
            $file = $directory . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
            if (is_file($file)) {
                require $file;
                return;
            }
        }
    }
});
