#include "wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace {

int checked(int result, const char *what) {
    if (result < 0) throw std::runtime_error(std::string(what) + ": " + strerror(errno));
    return result;
}

[[noreturn]] void lost(const char *what) { throw Gone(std::string(what) + ": " + strerror(errno)); }

}  // namespace

int connect_to(const Options &options) {
    int fd;
    if (!options.text("socket").empty()) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (options.text("socket").size() >= sizeof address.sun_path) throw std::runtime_error("the socket's name is too long");
        strcpy(address.sun_path, options.text("socket").c_str());
        fd = checked(socket(AF_UNIX, SOCK_STREAM, 0), "socket");
        checked(connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address), "connect");
    } else {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(options.number("port", 0)));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
        checked(connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address), "connect");
        int on = 1;
        checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
    }
    checked(fcntl(fd, F_SETFL, O_NONBLOCK), "fcntl");
    return fd;
}

Wire::Wire(const Options &options) : fd_(connect_to(options)) {}
Wire::~Wire() { close(fd_); }

void Wire::send(const std::string &text) {
    size_t sent = 0;
    while (sent < text.size()) {
        ssize_t wrote = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (wrote > 0) {
            sent += wrote;
        } else if (errno == EAGAIN) {
            pollfd wait{fd_, POLLIN | POLLOUT, 0};
            checked(poll(&wait, 1, -1), "poll");
            if (wait.revents & POLLIN) receive();
        } else if (errno != EINTR) {
            lost("send");
        }
    }
}

void Wire::receive() {
    if (at_ > 0) {
        in_.erase(0, at_);
        at_ = 0;
    }
    char buffer[65536];
    for (;;) {
        ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
        if (got > 0) {
            in_.append(buffer, got);
            if (static_cast<size_t>(got) < sizeof buffer) return;
        } else if (got == 0) {
            throw Gone("the server closed the connection");
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            lost("recv");
        }
    }
}

void Wire::await() {
    pollfd wait{fd_, POLLIN, 0};
    checked(poll(&wait, 1, -1), "poll");
    receive();
}

bool Wire::line(std::string &text) const {
    size_t end = in_.find("\r\n", at_);
    if (end == std::string::npos) return false;
    text.assign(in_, at_, end - at_);
    return true;
}

const char *Wire::bytes(size_t skip, size_t count) const {
    return in_.size() >= at_ + skip + count ? in_.data() + at_ + skip : nullptr;
}
