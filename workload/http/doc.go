// Package http is the workload http: a page asked for again and again over HTTP/1.1 (RFC 9110, RFC 9112), by many
// clients at once.
//
// The clients are the connections of one thread ([dialogue.Client]), each with one request on the way; the page is the
// same for all. With connection keep-alive they last for a generation, or, with nginx, for a trial; with new each
// request has a connection of its own, which the server closes, and whose making is timed apart (connect_latency) and
// is part of the request's latency. The client asks for nothing but the page and understands what says how long it is:
// an answer in chunks, or one that lasts until the connection ends, is refused. Of the page it looks at the length.
//
// # The servers
//
// The embedded server is one thread that answers GET and HEAD of one page: it reads each request for what it is, and
// copies the page for each answer.
//
// nginx is Debian's, one process, with the configuration that its package has where that matters for one page (sendfile
// and tcp_nopush on), without access log, with the page in its cache of open files, and with as many requests on a
// connection as there are. It is started for each trial and killed at its end. Its configuration, its page and what
// else it wants to have as a file are memory: nothing is left, however it ends.
package http
