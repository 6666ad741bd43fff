package sock

import (
	"net"
	"os/exec"
	"sync"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

// An address can be bound again as soon as its socket was closed, even while other threads start processes, which
// briefly hold copies of all sockets.
func TestRebind(t *testing.T) {
	var forks sync.WaitGroup
	stop := make(chan struct{})
	defer forks.Wait()
	defer close(stop)
	for range 4 {
		forks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("/proc/self/exe", "-test.run", "^$").Run() // the result does not matter
				}
			}
		})
	}
	m := testnet.New(t)
	err := m.Do(func() error {
		for range 1000 {
			var c *net.UDPConn
			err := Rebind(func() (err error) {
				c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4zero, Port: 7000})
				return err
			})
			if err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
