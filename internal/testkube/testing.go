package testkube

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
)

// Main is the TestMain of a package whose tests start clusters: the test program is PID 1 of their machines, too. See
// [testnet.Main].
func Main(m *testing.M) {
	if Again(os.Args) { //nolint:forbidigo // it is the main function of a test binary
		//nolint:forbidigo // it is the main function of a test binary
		os.Exit(Init(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	testnet.Main(m)
}

// New starts a cluster for a test, which is stopped at its end. Without make test-kube, the test skips
// ([testnet.Kube]). If the test fails, it logs the ends of the logs of all daemons.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	testnet.Kube(t)
	testnet.Skip(t, MissingFor(o.Network))
	if o.Say == nil {
		o.Say = func(what string) { t.Log(what) }
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(20))
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}
