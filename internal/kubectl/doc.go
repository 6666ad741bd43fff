// Package kubectl reaches the API server of a Kubernetes cluster through the user's own kubectl.
//
// kubectl knows the user's configuration, contexts, credential plugins and proxies. [Open] starts one "kubectl proxy"
// at a unix socket that only this process can reach, and a [Client] speaks HTTP and JSON to it. [Client.Exec] runs a
// program in a pod over a WebSocket, and carries its standard files.
//
//	this process ── unix socket ── kubectl proxy ── TLS ── API server ── kubelet ── program in a pod
//
// The proxy is killed with this process, however that ends. The socket has no name once the proxy listens, so nothing
// is left in the file system.
//
// The client knows no kind of object: paths are those of the API, such as "/api/v1/namespaces/x/pods", and objects are
// what encoding/json takes.
package kubectl
