package process

import "os"

// Ended says how a process ended: "exit status 3", "signal: killed". A nil state is that of a process whose end
// somebody else has waited for.
func Ended(state *os.ProcessState) string {
	if state == nil {
		return "its exit status is not known"
	}
	return state.String()
}
