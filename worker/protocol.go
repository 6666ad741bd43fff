package worker

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// The methods of a worker, in the order in which they are called. Those of a turn that is passed by calls are in
// traffic/remote.
const (
	Rights     = "rights"      // nothing → rights.Rights: what the kernel lets this process do
	Links      = "links"       // nothing → []Link: those of the namespace of this process
	Devices    = "devices"     // nothing → []traffic.DeviceCount: what they have counted
	Begin      = "begin"       // BeginParams → nothing
	Congestion = "congestion"  // CongestionParams → []string
	Open       = "open"        // OpenParams → nothing; the sinks of a cell before its sources
	Ready      = "ready"       // nothing → nothing: waits for the connections between sources and sinks
	Facts      = "facts"       // nothing → []EndpointFacts
	ProofOpen  = "proof.open"  // proof.Try → nothing: answers at its To from now on
	ProofTry   = "proof.try"   // []proof.Try → []proof.Seen, made at the same time
	ProofClose = "proof.close" // nothing → nothing

	SampleListen  = "sample.listen"  // proof.Try → nothing: counts what arrives at its To from now on
	SampleSend    = "sample.send"    // proof.Try → nothing
	SampleArrived = "sample.arrived" // nothing → int64: how many datagrams have arrived; it does not listen any more

	ReachOpen  = "reach.open"  // ReachOpenParams → proof.Opened: hears tries of a matrix from now on
	ReachSend  = "reach.send"  // ReachSendParams → proof.Sent
	ReachHeard = "reach.heard" // ReachParams → proof.Heard
	ReachClose = "reach.close" // ReachParams → nothing

	Collect = "collect" // CollectParams → []CellSamples
)

// ReachParams names a container that a matrix is tried from and at.
type ReachParams struct {
	Container string `json:"container"`
}

// ReachOpenParams says what the container hears by.
type ReachOpenParams struct {
	ReachParams
	Namespace string `json:"namespace"` // reference as in host steps
	proof.Listening
}

// ReachSendParams are tries that the container sends.
type ReachSendParams struct {
	ReachParams
	Shots []proof.Shot `json:"shots"`
}

// BeginParams makes the threads.
type BeginParams struct {
	Worker int    `json:"worker"` // number on the board
	Pairs  int    `json:"pairs"`  // how many threads
	CPUs   []int  `json:"cpus"`   // thread i runs on CPUs[i % len]; empty: anywhere
	Run    uint64 `json:"run"`    // makes trial ids differ between generations
	Alone  bool   `json:"alone"`  // no two threads, of any cell or worker, share a CPU
	// Watched are the CPUs on which a probe counts in trials that are probed.
	Watched []int `json:"watched,omitempty"`
	// Programs are processes of the host that carry packets (ovs-vswitchd). Their run time counts towards the trials of
	// this worker's first pair.
	Programs []int `json:"programs,omitempty"`
}

// CongestionParams asks which of the candidates are valid for a TCP socket in a namespace.
type CongestionParams struct {
	Namespace  string   `json:"namespace"` // reference as in host steps
	Candidates []string `json:"candidates"`
}

// OpenParams opens endpoints. An endpoint that is already open for the same visit and seat is closed first.
type OpenParams struct {
	Endpoints []EndpointSpec `json:"endpoints"`
}

// EndpointSpec describes one endpoint and where its sockets open.
type EndpointSpec struct {
	Cell int `json:"cell"` // the cell of its samples
	// number on the board: of the cell's own visit, or of the visit of its mix
	Visit     int           `json:"visit"`
	Seat      int           `json:"seat"` // the thread of this worker that drives it
	Namespace string        `json:"namespace"`
	Spec      workload.Spec `json:"spec"`
}

// EndpointFacts is what the kernel granted to one endpoint.
type EndpointFacts struct {
	Cell  int           `json:"cell"`
	Pair  int           `json:"pair"`
	Side  workload.Side `json:"side"`
	Facts sock.Facts    `json:"facts"`
}

// CollectParams names the visits that had a trial in the last block.
type CollectParams struct {
	Visits []int `json:"visits"`
}

// CellSamples holds the samples of one cell's trial in this worker.
type CellSamples struct {
	Cell    int              `json:"cell"`
	Pairs   []int            `json:"pairs"`   // the pair of each sample
	Side    []workload.Side  `json:"side"`    // and its side
	Samples []traffic.Sample `json:"samples"` //
	// of all pairs in ns, HdrHistogram V2 compressed, base64; "" for none
	Histograms [traffic.Quantities]string `json:"histograms"`
}
