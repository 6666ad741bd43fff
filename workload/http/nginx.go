package http

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// nginx is the name of the program and of the server.
const nginx = "nginx"

func nginxNeeded() program.Needed {
	return program.Needed{By: "http with server nginx", Program: nginx, Package: "nginx-light", AskVersion: []string{"-v"}}
}

// The files of nginx, by number ([program.FilePath]).
const (
	configFile = iota
	pageFile
	// scratchFile is for everything that nginx requires: its PID file, and directories for features that are not used.
	// nginx makes such a directory if it is missing, and accepts whatever is there.
	scratchFile
)

// configuration returns nginx's configuration (https://nginx.org/en/docs/dirindex.html): one process, which serves one
// file. nginx closes connections that wait for a request when less than a sixteenth of worker_connections is left
// (ngx_drain_connections, src/core/ngx_connection.c).
func configuration(at netip.AddrPort) string {
	scratch := program.FilePath(scratchFile)
	return fmt.Sprintf(`daemon off;
master_process off;
user root;
pid %[1]s;
error_log stderr error;
events {
	worker_connections 4096;
	multi_accept on;
}
http {
	access_log off;
	default_type application/octet-stream;
	sendfile on;
	tcp_nopush on;
	keepalive_timeout 1h;
	keepalive_requests 1000000000;
	open_file_cache max=16 inactive=1h;
	open_file_cache_valid 1h;
	client_body_temp_path %[1]s;
	proxy_temp_path %[1]s;
	fastcgi_temp_path %[1]s;
	uwsgi_temp_path %[1]s;
	scgi_temp_path %[1]s;
	server {
		listen %[2]s backlog=4096;
		location = %[3]s {
			alias %[4]s;
		}
		location / {
			return 404;
		}
	}
}
`, scratch, at, pagePath, program.FilePath(pageFile))
}

// newNginx makes a sink that runs nginx.
func newNginx(s workload.Spec) (_ traffic.Endpoint, err error) {
	needed := nginxNeeded()
	r := program.Role{
		By: needed.By, Program: needed.Program, Package: needed.Package, Local: s.Local, Listens: "tcp", Stop: program.Serves,
		Options: s.SocketOptions(),
		Args:    func(int) []string { return []string{"-c", program.FilePath(configFile)} },
		Before:  func() error { return program.Unpace(s.SocketOptions().Congestion) },
	}
	defer func() {
		for _, f := range r.Files {
			if err != nil {
				_ = f.Close()
			}
		}
	}()
	if r.Granted, err = sock.Grants(s.Local.Addr(), true, s.SocketOptions()); err != nil {
		return nil, err
	}
	contents := [][]byte{
		configFile: []byte(configuration(s.Local)), pageFile: traffic.Payload(s.Params.Size("payload")),
		scratchFile: nil,
	}
	for i, name := range []string{"nginx.conf", "page", "scratch"} {
		var f *os.File
		if f, err = process.Memory(name); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, f)
		if _, err = f.Write(contents[i]); err != nil {
			return nil, fmt.Errorf("write %s for nginx: %w", name, err)
		}
	}
	return r.Open()
}
