// Package http is the workload http: requests for one page over HTTP/1.1 (RFC 9110, RFC 9112), repeated by many clients
// at once.
//
// The clients are the connections of one thread ([dialogue.Client]), each with one request in flight; all request the
// same page. With connection keep-alive, they are kept for a generation or, with nginx, for a trial. With connection
// new, each request has a connection of its own, which the server closes. The time to make it is recorded separately
// (connect_latency) and is part of the request's latency. The client requests nothing but the page, and requires a
// known length: it refuses a chunked response, or one that lasts until the connection ends. It checks only the length
// of the page.
//
// # The servers
//
// The embedded server is one thread that answers GET and HEAD of one page. It parses each request, and copies the page
// for each answer.
//
// nginx is Debian's, with one process. Its configuration is the package's as far as that matters for one page (sendfile
// and tcp_nopush on). It has no access log, keeps the page in its cache of open files, and does not limit the requests
// of a connection. It is started for each trial and killed at its end. Its configuration, its page and other files that
// it requires are in memory: nothing is left, however it ends.
package http
