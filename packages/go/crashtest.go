// Package crashtest shows what a power cut may leave of the files that Go code writes.
//
// [Run] runs a workload once, records its system calls, and runs a check on every state of its
// directory that a power cut may have left, by models of ext4 and XFS. It needs no root, but the
// program seekless, on the search path or named by the variable SEEKLESS.
package crashtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What a process of the test binary does: set in those that Run starts.
const (
	roleVariable      = "SEEKLESS_ROLE"
	directoryVariable = "SEEKLESS_DIRECTORY"
)

// lacking is the exit code of a machine that cannot run the test.
const lacking = 7

// Run fails the test if check refuses a state that a power cut may leave of what run wrote.
//
// Both functions run in processes of their own: the test binary, started again for this test only.
// What the test does before it calls Run is done there, too. run acknowledges what must survive
// from then on; check gets what was acknowledged before the cut, in order, and says what is wrong
// with the state. options are those of `seekless crash-test`, such as "--model", "ext4,xfs,posix"
// or "--budget", "60s"; the models are ext4 and xfs unless they are given.
func Run(
	t *testing.T,
	run func(dir string, ack func(value string)),
	check func(dir string, acked []string) error,
	options ...string,
) {
	t.Helper()
	directory := os.Getenv(directoryVariable)
	switch os.Getenv(roleVariable) {
	case "run":
		run(directory, acknowledge)
		os.Exit(0)
	case "check":
		acked, err := acknowledged()
		if err == nil {
			err = check(directory, acked)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	out, err := test(t.Name(), options)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// test runs the whole crash test; it gives what that prints.
func test(name string, options []string) (string, error) {
	seekless := os.Getenv("SEEKLESS")
	if seekless == "" {
		found, err := exec.LookPath("seekless")
		if err != nil {
			return "", errors.New("seekless is not on the search path; install it, or name it in SEEKLESS")
		}
		seekless = found
	}
	binary, err := os.Executable()
	if err != nil {
		return "", err
	}
	arguments := []string{"crash-test"}
	if !given(options, "--model") && !given(options, "--fs") {
		arguments = append(arguments, "--model", "ext4,xfs")
	}
	arguments = append(arguments, "--run", again(binary, name, "run"))
	arguments = append(arguments, "--check", again(binary, name, "check"))
	command := exec.Command(seekless, append(arguments, options...)...)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == lacking {
		return string(out), errors.New("this machine cannot run crash tests")
	}
	return string(out), err
}

// given is true if an option is among others.
func given(options []string, wanted string) bool {
	for _, option := range options {
		if option == wanted || strings.HasPrefix(option, wanted+"=") {
			return true
		}
	}
	return false
}

// again is the line of a shell that starts this test in a role.
func again(binary, name, role string) string {
	// A subtest is found by a pattern for each part of its name.
	parts := strings.Split(name, "/")
	for index, part := range parts {
		parts[index] = "^" + escaped(part) + "$"
	}
	return fmt.Sprintf("%s=%s %s={dir} %s -test.run %s", roleVariable, role, directoryVariable,
		quoted(binary), quoted(strings.Join(parts, "/")))
}

// escaped is a pattern for exactly this text.
func escaped(text string) string {
	var out strings.Builder
	for _, one := range text {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, one) {
			out.WriteByte('\\')
		}
		out.WriteRune(one)
	}
	return out.String()
}

// quoted is a word of a shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// acknowledge says that a value must survive from now on.
func acknowledge(value string) {
	if strings.Contains(value, "\n") {
		panic(fmt.Sprintf("an acknowledgement is one line of text, not %q", value))
	}
	file, err := os.OpenFile(os.Getenv("SEEKLESS_ACKS"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(value + "\n")
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		panic(err)
	}
}

// acknowledged is what was acknowledged before the power went.
func acknowledged() ([]string, error) {
	text, err := os.ReadFile(os.Getenv("SEEKLESS_ACKED_FILE"))
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}
