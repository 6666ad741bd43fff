package process

import "os"

// Ended describes how a process ended: "exit status 3", "signal: killed". A nil state means that something else has
// waited for the process.
func Ended(state *os.ProcessState) string {
	if state == nil {
		return "its exit status is not known"
	}
	return state.String()
}
