package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
)

// The methods of an agent, in addition to the protocol's own "hello", and their parameters. There is one notification,
// "worker.died".
const (
	methodCheck       = "check"
	methodEntrust     = "entrust"
	methodApply       = "apply"
	methodVerify      = "verify"
	methodMeasure     = "measure"
	methodChange      = "change"
	methodReport      = "report"
	methodUse         = "use"
	methodContainers  = "containers"
	methodKill        = "kill"
	methodWithdraw    = "withdraw"
	methodRestore     = "restore"
	methodRekey       = "rekey"
	methodTrace       = "trace"
	methodWatch       = "watch"
	methodAudit       = "audit"
	methodLogs        = "logs"
	methodTimes       = "times"
	methodUndo        = "undo"
	methodKept        = "kept"
	methodRemove      = "remove"
	methodExec        = "exec"
	methodWorkerStart = "worker.start"
	methodWorkerCall  = "worker.call"
	methodWorkerKill  = "worker.kill"
	notifyWorkerDied  = "worker.died"
)

// codeDied is the code of the error of a call to a worker that is gone; its data is a death.
const codeDied = 100

// codeSilent is the code of the error of a start whose worker does not answer in time; its message says what it does.
const codeSilent = 101

type entrustParams struct {
	Secret []byte `json:"secret"`
}

type applyParams struct {
	Plan json.RawMessage `json:"plan"`
}

type useParams struct {
	Memory bool `json:"memory,omitempty"`
}

type rekeyParams struct {
	Stage int `json:"stage"`
}

type changeParams struct {
	Allow bool `json:"allow"`
}

// A worker is identified by a serial number of the connection, because a later worker may use its ID again.
type startParams struct {
	Serial int             `json:"serial"`
	Spec   host.WorkerSpec `json:"spec"`
	Within time.Duration   `json:"within,omitempty"` // the agent gives up then and says what it sees; 0: it has no limit
}

type watchParams struct {
	// Announce says that only processes and sockets are taken as they are now.
	Announce bool `json:"announce,omitempty"`
}

type auditParams struct {
	All bool `json:"all,omitempty"`
}

type callParams struct {
	Serial int             `json:"serial"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

type killParams struct {
	Serial int `json:"serial"`
}

type death struct {
	Serial int `json:"serial"`
	// Reason is how the worker died; "" if it was asked to end.
	Reason string `json:"reason,omitempty"`
}

// Arguments are what host-init, agents and workers are told.
type Arguments struct {
	Name string
	// Container is the one in which a worker runs; "" for a worker beside containers.
	Container string
	// Handed is the socket from which a worker takes its files, "" if it inherits them.
	Handed string
	// Cgroups says that the host has those of the machine.
	Cgroups bool
	// Files are the inherited files; [process.Inherited] or [process.Handed] opens them.
	Files []string
}

// keepCgroups is the value of --cgroups.
const keepCgroups = "keep"

// Args reads arguments: "--name NAME", "--container NAME", "--handed SOCKET", "--cgroups keep", and "--file NAME=FD"
// for each inherited file.
func Args(args []string) (a Arguments, err error) {
	for rest := range slices.Chunk(args, 2) {
		if len(rest) < 2 {
			return Arguments{}, fmt.Errorf("missing value after argument %q", rest[0])
		}
		switch rest[0] {
		case "--name":
			a.Name = rest[1]
		case "--container":
			a.Container = rest[1]
		case host.HandedOption:
			a.Handed = rest[1]
		case "--cgroups":
			a.Cgroups = rest[1] == keepCgroups
		case "--file":
			a.Files = append(a.Files, rest[1])
		default:
			return Arguments{}, fmt.Errorf("unknown argument %q (known: --name NAME, --container NAME, --handed SOCKET, "+
				"--cgroups keep, --file NAME=FD)", rest[0])
		}
	}
	return a, nil
}
