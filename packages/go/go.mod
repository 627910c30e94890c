module crashtest

go 1.21
