// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/credentials"
	"github.com/docker/cli/cli/config/types"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/plugin/api"
)

const (
	// dockerHub is Docker Hub's key in a docker config.
	dockerHub = "https://index.docker.io/v1/"
	// maxCredentials bounds, in bytes, a password or a file of credentials.
	maxCredentials = 1 << 20
)

// credentialFlags say where credentials come from, at most one of them.
type credentialFlags struct{ user, file, dockerConfig string }

func (f *credentialFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.user, "creds", "", "`user` of a pull secret; its password is asked for, or is standard input")
	flags.StringVar(&f.file, "creds-file", "", "`file` with user:password in its only line")
	flags.StringVar(&f.dockerConfig, "docker-config", "", "docker's config.json, or that of a pull secret: a `file`")
}

// errPassword does not repeat the password.
var errPassword = errors.New("--creds takes the user only: every process of the machine sees arguments, and shells keep them.\n" +
	"The password is asked for; or give it on standard input, or use --creds-file or --docker-config")

// read returns the credentials for an image; nil for none. No error tells them.
func (f *credentialFlags) read(stdin io.Reader, prompt io.Writer, image string) (*api.Auth, error) {
	switch {
	case f.user != "" && f.file != "", f.user != "" && f.dockerConfig != "", f.file != "" && f.dockerConfig != "":
		return nil, errors.New("--creds, --creds-file and --docker-config exclude each other")
	case strings.Contains(f.user, ":"):
		return nil, errPassword
	case f.user != "":
		password, err := readPassword(stdin, prompt, f.user)
		if err != nil {
			return nil, err
		}
		return &api.Auth{Username: f.user, Password: password}, nil
	case f.file != "":
		return readCredentials(f.file)
	case f.dockerConfig != "":
		return readDockerConfig(f.dockerConfig, image)
	}
	return nil, nil
}

// readPassword asks for a password where standard input is a terminal, and reads it
// from there otherwise.
func readPassword(stdin io.Reader, prompt io.Writer, user string) (string, error) {
	var (
		text []byte
		err  error
	)
	if file, ok := stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		_, _ = fmt.Fprintf(prompt, "Password of %s: ", user)
		text, err = readWithoutEcho(int(file.Fd()))
		_, _ = fmt.Fprintln(prompt)
	} else {
		text, err = io.ReadAll(io.LimitReader(stdin, maxCredentials))
	}
	if err != nil {
		return "", fmt.Errorf("read the password of %s: %w", user, err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("there is no password of %s on standard input", user)
	}
	return password, nil
}

// readWithoutEcho reads a line from a terminal, which it leaves as it was, also after a
// signal to end. It goes on to read then until the process ends, which is next.
func readWithoutEcho(terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ended)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(terminal)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-ended:
		return nil, errors.Join(errors.New("interrupted"), term.Restore(terminal, before))
	}
}

func readCredentials(name string) (*api.Auth, error) {
	text, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	user, password, ok := strings.Cut(strings.TrimRight(text, "\r\n"), ":")
	if !ok || user == "" || strings.Contains(password, "\n") {
		return nil, fmt.Errorf("%s does not have one line with user:password", name)
	}
	return &api.Auth{Username: user, Password: password}, nil
}

func readBounded(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCredentials))
	return string(text), err
}

// readDockerConfig returns the credentials for an image: those of the longest part of its
// repository that the file names, as the kubelet has it, or else those of its registry.
func readDockerConfig(name, image string) (*api.Auth, error) {
	text, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	config := configfile.New(name)
	if config.LoadFromReader(strings.NewReader(text)) != nil {
		return nil, fmt.Errorf("%s is no docker config that can be read", name) // its errors may quote it
	}
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return nil, fmt.Errorf("image reference %q: %w", image, err)
	}
	host := reference.Domain(named)
	var found types.AuthConfig
	for part := named.Name(); part != "." && isEmpty(found); part = path.Dir(part) {
		found = config.AuthConfigs[part]
	}
	if isEmpty(found) {
		key := host
		if registryname.Canonical(host) == "docker.io" {
			key = dockerHub
		}
		if found, err = storeOf(config, key).Get(key); err != nil {
			return nil, fmt.Errorf("%s has no credentials for %s that can be read", name, host)
		}
	}
	if isEmpty(found) {
		return nil, fmt.Errorf("%s has no credentials for %s", name, host)
	}
	return &api.Auth{Username: found.Username, Password: found.Password, IdentityToken: found.IdentityToken}, nil
}

// isEmpty reports whether an entry has no credentials: docker leaves such a one for each
// registry whose credentials a helper keeps.
func isEmpty(a types.AuthConfig) bool { return cmp.Or(a.Username, a.Password, a.IdentityToken) == "" }

// storeOf returns where a docker config keeps the credentials of a registry: by a helper,
// or in itself. The environment, which docker asks first, has no say.
func storeOf(config *configfile.ConfigFile, registry string) credentials.Store {
	if helper := cmp.Or(config.CredentialHelpers[registry], config.CredentialsStore); helper != "" {
		return credentials.NewNativeStore(config, helper)
	}
	return credentials.NewFileStore(config)
}
