package dialogue

import (
	"net/netip"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// ServerSpec is all that a server needs to know.
type ServerSpec struct {
	Local   netip.AddrPort
	Options sock.Options // of the listening socket, which connections inherit; NoDelay is set in any case
	Handler Handler

	// Of studies: the server stands still every so often, and spins before each answer.
	StallEvery, StallFor time.Duration
	Plant                time.Duration
}

// Server is the sink's end of a dialogue: a [traffic.Endpoint] and a [traffic.Collector].
type Server struct {
	spec ServerSpec
}

// NewServer makes one that listens. The calling thread is inside the container's network namespace.
func NewServer(spec ServerSpec) (*Server, error) {
	return &Server{spec: spec}, nil
}
