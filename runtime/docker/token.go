package docker

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/nettoll/nettoll/host"
)

// The token of a swarm is made by its manager, and the other hosts need it. The host of the manager hands it to them
// over what joins the hosts, and whoever does not know the secret of the lab can neither ask for it nor read it.

const (
	// request is what a host asks, and both begin the purposes of keys: a request is no answer.
	request, answer = "docker swarm, request", "docker swarm, answer"
	// mostToken is more than a sealed token has, in bytes.
	mostToken = 4096
	// handing is how long one host may take to ask and to read.
	handing = 5 * time.Second
	// fetching is how long the first host may take to make the swarm.
	fetching = 60 * time.Second
	// again is the time between two attempts to ask.
	again = 50 * time.Millisecond
)

// sealer returns what seals messages for one purpose, by AES-256-GCM.
func sealer(k *host.Kernel, purpose string) (cipher.AEAD, error) {
	key, err := k.Derive(purpose)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// hand hands a token to as many other hosts, which ask for it at an address. Nobody listens there afterwards. Closing
// what it returns ends that early.
func hand(k *host.Kernel, at, token string, hosts int) (io.Closer, error) {
	asks, err := sealer(k, request)
	if err != nil {
		return nil, err
	}
	answers, err := sealer(k, answer)
	if err != nil {
		return nil, err
	}
	var l net.Listener
	if err := k.Do("", func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	}); err != nil {
		return nil, fmt.Errorf("hand out the token of a swarm: %w", err)
	}
	go func() {
		defer l.Close()
		for left := hosts; left > 0; {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			if handed(c, asks, answers, token) == nil {
				left--
			}
		}
	}()
	return closer(func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}), nil
}

type closer func() error

// Close calls the function.
func (c closer) Close() error { return c() }

// handed answers a request.
func handed(c net.Conn, asks, answers cipher.AEAD, token string) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(handing)); err != nil {
		return err
	}
	sealed, err := io.ReadAll(io.LimitReader(c, mostToken))
	if err != nil {
		return err
	}
	if _, err := asks.Open(nil, nil, sealed, nil); err != nil {
		return err
	}
	_, err = c.Write(answers.Seal(nil, nil, []byte(token), nil))
	return err
}

// fetch asks the host at an address for the token, until it has one.
func fetch(ctx context.Context, k *host.Kernel, at string) (string, error) {
	asks, err := sealer(k, request)
	if err != nil {
		return "", err
	}
	answers, err := sealer(k, answer)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, fetching)
	defer cancel()
	for {
		token, err := fetched(k, at, asks, answers)
		if err == nil {
			return token, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("get the token of the swarm from %s: %w", at, err)
		case <-time.After(again):
		}
	}
}

// fetched asks once.
func fetched(k *host.Kernel, at string, asks, answers cipher.AEAD) (string, error) {
	var c net.Conn
	if err := k.Do("", func() (err error) {
		c, err = net.DialTimeout("tcp", at, handing)
		return err
	}); err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(handing)); err != nil {
		return "", err
	}
	if _, err := c.Write(asks.Seal(nil, nil, []byte(request), nil)); err != nil {
		return "", err
	}
	if half, is := c.(*net.TCPConn); is {
		if err := half.CloseWrite(); err != nil {
			return "", err
		}
	}
	sealed, err := io.ReadAll(io.LimitReader(c, mostToken))
	if err != nil {
		return "", err
	}
	token, err := answers.Open(nil, nil, sealed, nil)
	if err != nil {
		return "", errors.New("the answer is not from a host of this lab")
	}
	return string(token), nil
}
