package ovs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// patience is how long an answer may take on an overloaded machine.
const patience = 30 * time.Second

// rpc is a JSON-RPC 1.0 connection with one request at a time (RFC 7047, section 4).
type rpc struct {
	conn net.Conn
	enc  *json.Encoder
	dec  *json.Decoder
	id   int
}

func dialRPC(path string) (*rpc, error) {
	conn, err := net.DialTimeout("unix", path, patience)
	if err != nil {
		return nil, err
	}
	return &rpc{conn: conn, enc: json.NewEncoder(conn), dec: json.NewDecoder(conn)}, nil
}

func (r *rpc) close() { _ = r.conn.Close() }

// call sends a request and waits for the answer. A nil result discards it.
func (r *rpc) call(method string, params, result any) error {
	if err := r.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	r.id++
	question := struct {
		Method string `json:"method"`
		Params any    `json:"params"`
		ID     int    `json:"id"`
	}{method, params, r.id}
	if err := r.enc.Encode(question); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		var m struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := r.dec.Decode(&m); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if m.Method == "echo" { // the server checks the connection (RFC 7047, section 4.1.11)
			if err := r.enc.Encode(map[string]any{"result": m.Params, "error": nil, "id": m.ID}); err != nil {
				return err
			}
			continue
		}
		if m.Method != "" {
			continue // an unrequested notification
		}
		if len(m.Error) > 0 && string(m.Error) != "null" {
			var text string
			if json.Unmarshal(m.Error, &text) != nil {
				text = string(m.Error)
			}
			return fmt.Errorf("%s: %w", method, errors.New(text))
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// Control sends a command to the control socket of a daemon, like ovs-appctl(8), and returns its output.
func Control(socket, command string, args ...string) (string, error) {
	r, err := dialRPC(socket)
	if err != nil {
		return "", err
	}
	defer r.close()
	if args == nil {
		args = []string{} // not null
	}
	var text string
	err = r.call(command, args, &text)
	return text, err
}
