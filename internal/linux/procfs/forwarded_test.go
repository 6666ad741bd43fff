package procfs

import "testing"

func TestCounted4(t *testing.T) {
	const text = "Ip: Forwarding DefaultTTL InReceives ForwDatagrams OutRequests\nIp: 1 64 71 23 48\nIcmp: " +
		"InMsgs\nIcmp: 3\n"
	if got, err := counted4(text, "ForwDatagrams"); err != nil || got != 23 {
		t.Errorf("counted4 = %d, %v, want 23", got, err)
	}
	if got, err := counted4("Ip: Forwarding\nIp: 1\n", "ForwDatagrams"); err == nil {
		t.Errorf("counted4 without the counter = %d, want an error", got)
	}
}
