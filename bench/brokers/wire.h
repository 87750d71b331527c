// A connection for protocols with lines and counted bytes. Used by beanstalkd.cpp and nats.cpp.

#pragma once

#include "client.h"

// Connects to the socket= or port= of the options; a port is on 127.0.0.1.
int connect_to(const Options &options);

class Wire {
public:
    explicit Wire(const Options &options);
    ~Wire();
    Wire(const Wire &) = delete;
    Wire &operator=(const Wire &) = delete;

    int fd() const { return fd_; }
    // Sends all bytes. If the socket does not accept all of them at once, reads the input that arrives while it waits.
    void send(const std::string &text);
    // Reads the bytes that have arrived, either without waiting or after waiting until some have arrived.
    void receive();
    void await();

    // Returns the next complete line without its end, if it has arrived. take_line() consumes it.
    bool line(std::string &text) const;
    void take_line(const std::string &text) { at_ += text.size() + 2; }
    // Returns this many bytes after the consumed ones, or null if they have not arrived.
    const char *bytes(size_t skip, size_t count) const;
    void take(size_t count) { at_ += count; }

private:
    const int fd_;
    std::string in_;
    size_t at_ = 0;
};
