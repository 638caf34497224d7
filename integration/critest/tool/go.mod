// The version of critest that integration/critest runs, apart from what
// containerd is built with.
module github.com/pullwarden/pullwarden/integration/critest/tool

go 1.26.2

tool sigs.k8s.io/cri-tools/cmd/critest

require sigs.k8s.io/cri-tools v1.36.0 // indirect
