# A shell's own way to the network, which is no program that could be left out of the image.
given=$(cat)
tcp=$(sed 's/.*"tcp": \([0-9]*\).*/\1/' <<<"$given")
udp=$(sed 's/.*"udp": \([0-9]*\).*/\1/' <<<"$given")
(exec 3<>"/dev/tcp/127.0.0.1/$tcp") && echo 'through: connected by the shell'
(echo canary >"/dev/udp/127.0.0.1/$udp") && echo 'through: sent by the shell'
echo done
