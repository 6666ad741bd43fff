package procfs

import "testing"

func TestForwarded4(t *testing.T) {
	const text = "Ip: Forwarding DefaultTTL InReceives ForwDatagrams OutRequests\nIp: 1 64 71 23 48\nIcmp: " +
		"InMsgs\nIcmp: 3\n"
	if got, err := forwarded4(text); err != nil || got != 23 {
		t.Errorf("forwarded4 = %d, %v, want 23", got, err)
	}
	if got, err := forwarded4("Ip: Forwarding\nIp: 1\n"); err == nil {
		t.Errorf("forwarded4 without the counter = %d, want an error", got)
	}
}
