package kubectl

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// keep pings the server until the connection ends, and drops a connection that is dead.
//
// It does not ping while bytes come, nor while they wait for a reader. They show that the connection lives, and may be
// the last ones: a ping that reaches a server which has closed the connection ends the proxy's other direction too
// (UpgradeAwareHandler, k8s.io/apimachinery/pkg/util/proxy), with all that was not delivered.
//
// Nor does it ping during [Client.Hush], unless much input is on its way.
//
// The server takes messages in their order. A program that does not read its input therefore delays the answer to a
// ping behind that input, for as long as it likes. If the silence may be that, keep asks the API server over another
// connection whether it is there: a server that is there would have ended a connection that it does not know.
func (p *Process) keep() {
	l := p.client.limits
	for {
		hurry := false
		for due := false; !due; {
			select {
			case <-p.done:
				return
			case <-p.in.hurry:
				due, hurry = true, true
			case <-time.After(max(l.ping-p.silence(time.Time{}), p.client.hushed())):
				due = p.silence(time.Time{}) >= l.ping && p.client.hushed() <= 0
			}
		}
		sent, taken := p.in.mark()
		pinged := time.Now()
		answer := make(chan error, 1)
		go func() { answer <- p.in.ping(hurry) }()
		for answered := false; !answered; {
			select {
			case <-p.done:
				return
			case err := <-answer:
				if err != nil {
					return // the connection has ended; receive comes to its end when it has read what came before
				}
				answered = true
			case <-time.After(l.quiet / 5):
				if p.silence(pinged) < l.quiet {
					break
				}
				if sent > taken && p.client.there() {
					pinged = time.Now()
					break
				}
				p.drop(fmt.Errorf("the API server has not answered for %v", time.Since(pinged).Round(time.Second/10)))
				return
			}
		}
	}
}

// Hush says that no connection to a program may be pinged for that long, because a measurement uses the same network.
// It replaces what was said before.
func (c *Client) Hush(quiet time.Duration) {
	until := time.Now().Add(quiet)
	c.hush.Store(&until)
}

// hushed is how long no connection may be pinged from now on; not positive: they may be.
func (c *Client) hushed() time.Duration {
	if until := c.hush.Load(); until != nil {
		return time.Until(*until)
	}
	return 0
}

// silence is how long nothing has come, counted from a moment at the earliest. It is 0 while nothing is received
// because nobody reads.
func (p *Process) silence(from time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		return 0
	}
	if p.heard.After(from) {
		from = p.heard
	}
	return time.Since(from)
}

// there reports whether the API server answers at all.
func (c *Client) there() bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.limits.ask)
	defer cancel()
	return c.once(ctx, http.MethodGet, "/version", nil, nil) == nil
}
