package relay

import (
	"encoding/json"
	"fmt"
)

// A Wire is a pair of TAP devices. What one sends, the other receives.
type Wire struct {
	// Near is the device that the process makes, in its own network namespace. It ends with the process.
	Near string `json:"near"`
	// Far is the device that somebody else has made, in the network namespace at a path.
	Far  string `json:"far"`
	Path string `json:"path"`
	// MultiQueue is true if the far device was made with several queues. The process uses one of them.
	MultiQueue bool `json:"multi_queue,omitempty"`
}

// Args returns the arguments of [Serve].
func Args(wires []Wire) ([]string, error) {
	text, err := json.Marshal(wires)
	return []string{string(text)}, err
}

// parse reads the arguments from [Args].
func parse(args []string) ([]Wire, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d arguments (valid: pairs of TAP devices as JSON)", len(args))
	}
	var wires []Wire
	if err := json.Unmarshal([]byte(args[0]), &wires); err != nil {
		return nil, fmt.Errorf("pairs of TAP devices %q: %w", args[0], err)
	}
	return wires, nil
}
