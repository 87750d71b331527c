// A connection to a server that speaks in lines and counted bytes. Used by beanstalkd.cpp and nats.cpp.

#pragma once

#include "client.h"

// Connects to options' socket= or port= on 127.0.0.1.
int connect_to(const Options &options);

class Wire {
public:
    explicit Wire(const Options &options);
    ~Wire();
    Wire(const Wire &) = delete;
    Wire &operator=(const Wire &) = delete;

    int fd() const { return fd_; }
    // Sends all of it. What the socket does not take at once is waited for, and what comes meanwhile is read.
    void send(const std::string &text);
    // Reads what has come, without waiting; and waits until something has come.
    void receive();
    void await();

    // The next whole line without its end, if it has come; it is consumed by take_line().
    bool line(std::string &text) const;
    void take_line(const std::string &text) { at_ += text.size() + 2; }
    // So many bytes behind what has been consumed, or null while they have not come.
    const char *bytes(size_t skip, size_t count) const;
    void take(size_t count) { at_ += count; }

private:
    const int fd_;
    std::string in_;
    size_t at_ = 0;
};
