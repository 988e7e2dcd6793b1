/* The least that an agent does: answers with fixed text, and hands each delta of the model on. For a delta it makes the
   calls of windlass's own: it waits, receives, appends to a file, looks whether there is more, writes.

   floor PORT FILE: the port of the model, and the file to append to. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static char input[1 << 20], received[1 << 16], line[1 << 16], output[1 << 20];
static int model = -1, file = -1, events = -1;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void put(int descriptor, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(descriptor, bytes, length);
        if (written < 0) die("write");
        bytes += written;
        length -= written;
    }
}

static void open_model(int port, const char *path) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event wanted = {.events = EPOLLIN};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    model = socket(AF_INET, SOCK_STREAM, 0);
    if (model < 0 || connect(model, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
    setsockopt(model, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    file = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    events = epoll_create1(0);
    if (file < 0 || epoll_ctl(events, EPOLL_CTL_ADD, model, &wanted) < 0) die("open");
}

/* Adds an update for a line of the stream to the output; returns its new length. */
static size_t update(const char *event, size_t at) {
    const char *begin = strstr(event, "\"content\":\""), *end;
    if (!begin) return at;
    begin += strlen("\"content\":\"");
    for (end = begin; *end && *end != '"'; end++)
        if (*end == '\\' && end[1]) end++;
    if (end == begin) return at;
    return at + snprintf(output + at, sizeof output - at,
                         "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":"
                         "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"%.*s\"}}}}\n",
                         (int)(end - begin), begin);
}

/* Asks the model and hands its answer on. */
static void prompt(const char *request) {
    static char body[1 << 16], head[1 << 10];
    const char *text = strstr(request, "\"text\":\"");
    const char *end = text ? strchr(text + 8, '"') : NULL;
    int n_body = snprintf(body, sizeof body,
                          "{\"messages\":[{\"role\":\"user\",\"content\":\"%.*s\"}],\"tools\":[{}]}",
                          text && end ? (int)(end - text - 8) : 0, text ? text + 8 : "");
    int n_head = snprintf(head, sizeof head, "POST /v1 HTTP/1.1\r\ncontent-length: %d\r\n\r\n", n_body);
    put(model, head, n_head);
    put(model, body, n_body);
    enum { HEAD, SIZE, DATA, END } state = HEAD;
    long left = 0;
    size_t n_line = 0;
    int is_over = 0;
    struct epoll_event event;
    while (!is_over) {
        if (epoll_wait(events, &event, 1, -1) < 0) die("epoll_wait");
        ssize_t n_received = recv(model, received, sizeof received, 0);
        if (n_received <= 0) die("recv");
        size_t n_output = 0;
        for (ssize_t at = 0; at < n_received; at++) {
            char byte = received[at];
            switch (state) {
            case HEAD:
                if (byte == '\n') {
                    state = n_line == 0 ? SIZE : HEAD;
                    n_line = 0;
                } else if (byte != '\r') n_line++;
                break;
            case SIZE:
                if (byte == '\n') state = left > 0 ? DATA : END;
                else if (byte != '\r') left = left * 16 + (byte <= '9' ? byte - '0' : byte - 'a' + 10);
                is_over = state == END;
                break;
            case DATA:
                if (byte == '\n') {
                    line[n_line] = 0;
                    n_output = update(line, n_output);
                    n_line = 0;
                } else if (n_line + 1 < sizeof line) line[n_line++] = byte;
                if (--left == 0) state = END;
                break;
            case END:
                if (byte == '\n') state = SIZE;
                break;
            }
        }
        if (n_output > 0) {
            if (pwrite(file, received, n_received, 0) < 0) die("pwrite");
            epoll_wait(events, &event, 1, 0);
            put(1, output, n_output);
        }
    }
    if (state == END && recv(model, received, 2, 0) < 0) die("recv");
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    while (fgets(input, sizeof input, stdin)) {
        const char *id = strstr(input, "\"id\":"), *result = "{\"stopReason\":\"end_turn\"}";
        if (strstr(input, "\"initialize\""))
            result = "{\"protocolVersion\":1,\"agentCapabilities\":{},\"authMethods\":[]}";
        else if (strstr(input, "\"session/new\""))
            result = "{\"sessionId\":\"s\"}";
        else {
            if (model < 0) open_model(atoi(argv[1]), argv[2]);
            prompt(input);
        }
        int length = snprintf(output, sizeof output, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":%s}\n",
                              id ? atoi(id + 5) : 0, result);
        put(1, output, length);
    }
    return 0;
}
