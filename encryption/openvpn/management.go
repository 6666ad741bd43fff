package openvpn

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// answering is how long a process may take to answer: it does between packets.
const answering = 2 * time.Second

// ask asks a process over its management socket, and returns the lines of its answer (OpenVPN,
// doc/management-notes.txt). It answers when it has its link and its socket, and not before.
func ask(path, command string) (lines []string, err error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answering)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "%s\n", command); err != nil {
		return nil, err
	}
	said := bufio.NewScanner(c)
	for said.Scan() {
		line := strings.TrimSpace(said.Text())
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
	if err := said.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the process closes its management socket")
}

// version asks a process what it is: "openvpn 2.6.14".
func version(path string) (string, error) {
	lines, err := ask(path, "version")
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

// state asks a process how far it is, such as "WAIT" or [connected].
func state(path string) (string, error) {
	lines, err := ask(path, "state")
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
