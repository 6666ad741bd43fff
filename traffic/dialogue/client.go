package dialogue

import (
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// ClientSpec is all that a client needs to know.
type ClientSpec struct {
	Local, Remote netip.AddrPort // of Local the address: the ports of connections are the kernel's choice
	Options       sock.Options   // NoDelay is set in any case
	Connections   int
	Pipeline      int               // requests in flight on a connection, at most; 0: 1
	Schedule      *traffic.Schedule // when requests are due; nil: the loop is closed. Its sizes mean nothing here
	Asks          Asks

	// Renew makes a connection for each request: made when the request is due, or when the one before is over, and timed (traffic.Connect). The server closes
	// it after its answer, as HTTP's do (RFC 9112, section 9.6), so that the port is free again at once; the client waits for that before the next
	// request, and no latency counts it. Pipeline is 1.
	Renew bool

	// Fresh says that the server is another one in each trial: connections are made anew in each Prepare, which waits for it to listen.
	Fresh bool

	// Load is what a fresh server is asked before its trial, in Prepare: so many requests, none of them timed, whose answers all have to be Good.
	Load  Asks
	Loads uint64

	// Farewell, if set, is the request by which the server knows that the trial is over, when everything was answered: it is for servers of our own. Its answer has Leave
	// bytes, which are not judged.
	Farewell []byte
	Leave    int
}

// Client is the source's end of a dialogue: a [traffic.Endpoint] and a [traffic.Collector]. Its samples hold of the requests that were sent, or due, inside the window: Sent,
// Received (answers that were Good) and Errors (those that were Bad).
type Client struct {
	spec ClientSpec
}

// NewClient makes one, and no connection yet. The calling thread is inside the container's network namespace.
func NewClient(spec ClientSpec) (*Client, error) {
	return &Client{spec: spec}, nil
}
