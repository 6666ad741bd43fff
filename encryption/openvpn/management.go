package openvpn

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// answering is how long a process may take to answer: it does between packets.
const answering = 2 * time.Second

// management is a connection to the management socket of a process (OpenVPN, doc/management-notes.txt). The process
// answers when it has its link and its socket, and not before.
type management struct {
	net.Conn
	said *bufio.Scanner
}

// manage connects to the process whose management socket is in that directory.
func manage(dir string) (management, error) {
	c, err := net.Dial("unix", managed(dir))
	if err != nil {
		return management{}, err
	}
	return management{c, bufio.NewScanner(c)}, nil
}

// managed is the path of the socket.
func managed(dir string) string { return filepath.Join(dir, "management") }

// ask asks the process, and returns the lines of its answer.
func (m management) ask(command string) (lines []string, err error) {
	if err := m.SetDeadline(time.Now().Add(answering)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(m, "%s\n", command); err != nil {
		return nil, err
	}
	for m.said.Scan() {
		line := strings.TrimSpace(m.said.Text())
		switch {
		case line == "END":
			return lines, nil
		case strings.HasPrefix(line, ">"): // what it says of itself
		case strings.HasPrefix(line, "ERROR:"):
			return nil, fmt.Errorf("%s: %s", command, line)
		default:
			lines = append(lines, line)
		}
	}
	if err := m.said.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the process closes its management socket")
}

// version asks the process what it is: "openvpn 2.6.14".
func (m management) version() (string, error) {
	lines, err := m.ask("version")
	if err != nil {
		return "", err
	}
	for _, line := range lines {
		if fields := strings.Fields(line); strings.HasPrefix(line, "OpenVPN Version: OpenVPN ") && len(fields) > 3 {
			return name + " " + fields[3], nil
		}
	}
	return "", fmt.Errorf("the process says of its version only %q", lines)
}

// connected is the state of a process whose handshake is done.
const connected = "CONNECTED"

// state asks the process how far it is, such as "WAIT" or [connected].
func (m management) state() (string, error) {
	lines, err := m.ask("state")
	if err != nil {
		return "", err
	}
	if len(lines) > 0 { // time, state, details, addresses
		if fields := strings.Split(lines[len(lines)-1], ","); len(fields) > 1 {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("the process says of its state only %q", lines)
}
